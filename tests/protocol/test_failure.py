"""Errors on their way to the driver."""

from penstock.errors import BrokerError
from penstock.protocol.failure import pack_failure, unpack_failure


def test_what_the_driver_must_know_of_a_broker_that_is_away_travels_with_the_error():
    error = unpack_failure(pack_failure(BrokerError("away", code="_TRANSPORT", retriable=True)))
    assert isinstance(error, BrokerError)
    assert (str(error), error.code, error.retriable) == ("away", "_TRANSPORT", True)
    assert (error.abortable, error.fatal) == (False, False)
