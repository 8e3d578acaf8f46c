"""Opens connections. Stopped by: a network namespace of its own, from which nothing outside can be reached."""

import socket

PORT = 9  # where something listens on this machine

for address in (("127.0.0.1", PORT), ("192.0.2.1", 80)):  # the second is nobody's
    with socket.socket() as connection:
        connection.settimeout(2)
        try:
            connection.connect(address)
        except TimeoutError:
            raise RuntimeError(f"ESCAPED: packets to {address} left") from None
        except OSError as error:
            refused = error
        else:
            raise RuntimeError(f"ESCAPED: connected to {address}")
raise refused
