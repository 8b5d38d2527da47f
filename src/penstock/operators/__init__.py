"""What happens to one record. One family a file; every operator is a frozen spec with ``open(context, forward) -> on_record``."""
