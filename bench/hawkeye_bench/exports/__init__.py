"""The results of a folder of runs in the formats of others: CSV, a table for a paper, Inspect's logs.

Every figure is one that `hawkeye-bench report DIR --json` prints, or is made from the same records by a rule that stands
beside it; none is made anew.
"""
