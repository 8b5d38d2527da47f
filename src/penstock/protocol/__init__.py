"""What both sides of the process wall know: the forms of what travels between the driver and the workers."""
