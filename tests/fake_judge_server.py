"""`hawkeye-mcp` with the fake judge, for tests that need a real process. Takes the same arguments."""

from fake_judge import FakeJudge

from hawkeye_mcp.server import main

if __name__ == "__main__":
    main(judge_factory=FakeJudge().open)
