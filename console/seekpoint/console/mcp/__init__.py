"""An MCP server with tools that read a journal, for coding agents: ``seekpoint mcp``."""
