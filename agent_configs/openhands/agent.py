"""OpenHands SDK: what to pass to Agent; no "mcpServers" around the servers here."""

MCP_CONFIG = {
    "hawkeye": {"command": "hawkeye-mcp", "args": ["--tpu", "v5e"]},
}

# agent = Agent(llm=llm, tools=[...], mcp_config=MCP_CONFIG)
