"""What a user sees of Spark's end."""

import socket
import struct
import threading
from types import SimpleNamespace

from pyspark.accumulators import AccumulatorTCPServer, UpdateRequestHandler

from penstock.engine.executor import spark_session

TOKEN = "token"
RESET = struct.pack("ii", 1, 0)


def test_a_connection_that_spark_resets_when_it_ends_prints_no_traceback(capsys):
    server = AccumulatorTCPServer(("localhost", 0), UpdateRequestHandler, TOKEN)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    handled = threading.Event()
    finish, server.shutdown_request = server.shutdown_request, lambda request: (finish(request), handled.set())
    session = SimpleNamespace(sparkContext=SimpleNamespace(_accumulatorServer=server), stop=lambda: None)
    try:
        with socket.create_connection(server.server_address) as connection:
            connection.sendall(TOKEN.encode() + struct.pack("!i", 0))
            assert connection.recv(1)  # it is served
            spark_session.stop_session(session)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        assert handled.wait(60)
    finally:
        server.shutdown()
        thread.join()
    assert capsys.readouterr().err == ""
