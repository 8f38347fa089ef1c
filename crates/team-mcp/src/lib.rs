//! The operations as MCP tools on one stdio server
