"""Who may do what in the web console: roles, tokens, sessions, OpenID Connect."""
