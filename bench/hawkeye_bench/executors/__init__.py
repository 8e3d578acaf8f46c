"""Where runs are done: each module gives the function that `schedule.run_all` calls for one run."""
