"""The process that runs a person's own program: `python -m hawkeye_mcp.intake.inside REQUEST.json`; see `capture`."""
