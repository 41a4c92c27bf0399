"""The web console: pages for people and a JSON API for programs, over the readers that the commands use."""
