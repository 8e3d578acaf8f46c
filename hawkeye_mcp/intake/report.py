"""What a check of a job file finds."""

from pydantic import BaseModel, ConfigDict, Field

from hawkeye_mcp.intake.plan import Plan


class _Found(BaseModel):
    model_config = ConfigDict(frozen=True)


class Problem(_Found):
    """One fault of a job file."""

    field: str = Field(description="The field that it is about, such as references[0].path; empty: the whole file.")
    message: str = Field(description="What is wrong, and why.")
    fix: str = Field(description="What to do.")


class MissingPath(_Found):
    field: str
    path: str = Field(description="Where it was looked for.")


class Report(_Found):
    """Everything that is to be said of a job file at once."""

    job: str = Field(description="The file's path.")
    valid: bool = Field(description="Whether it can be imported: no errors, and every declared file is there.")
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    missing_paths: tuple[MissingPath, ...] = ()
    plan: Plan | None = Field(None, description="What an import will do. Null if there are errors.")

    @property
    def exit_code(self) -> int:
        """0 valid, 1 contradictory or no job, 2 a declared path is missing."""
        return 1 if self.errors else 2 if self.missing_paths else 0


class InvalidJob(ValueError):
    """The job file cannot be imported; `report` says why."""

    def __init__(self, report: Report) -> None:
        told = [f"{each.message} {each.fix}" for each in report.errors]
        told += [f"{each.field}: there is no file {each.path}." for each in report.missing_paths]
        super().__init__(f"{report.job} cannot be imported. {' '.join(told)}")
        self.report = report
