"""The application over HTTP: health, introspection, stores, changes, metrics. Runs in the driver's process, in a thread of its own."""
