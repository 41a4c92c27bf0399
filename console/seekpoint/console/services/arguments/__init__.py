"""What commands share to read their arguments: options, moments, files of prices, agents, the journal they work on."""
