"""Read the arguments of commands: options, moments, files of prices, agents, the journal to work on."""
