"""The engine: runs on the driver. Chooses the input of an epoch, runs it in the lanes, commits it at the barrier."""
