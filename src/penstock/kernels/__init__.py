"""What happens to a batch, one operator family a file. Without this package everything is correct, and slower.

General layout:

    kernel            the contract: effects, fallback scope, what a kernel may ask
    transaction       what the kernels of a batch would do, done at the end or not at all
    catalog           KERNELS: of every operator its kernel, or the reason why it has none
    chain             kernels in a chain: found once when a topology is planned, opened by a task
    batch_path        runs batches through the chains of a task
    fallback          what a kernel cannot take goes record by record from its node on
    join_inputs       batches of several parents wait for each other
    user_calls        a function of the user, called for each record of a batch
    rowwise, aggregate (fold), window, session, table_source (table_rows), table_join (table_view), join_window, stream_join,
    outer_join, foreign_key, sink
"""
