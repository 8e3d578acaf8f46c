"""Never ends while it is traced. Stopped by: the wall-clock limit of the sandbox."""


def workload(x, scale):
    while True:
        pass
