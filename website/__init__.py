"""The documentation site: `python -m website` builds it from docs/, offline.

General layout:

    sources     docs/ with what belongs to it: pages from elsewhere in the tree, files that pages link to
    api         the reference of the public interface, from signatures and docstrings
    commands    the reference of the command line, from the commands themselves
    endpoints   the reference of the endpoints over HTTP, from their table
    pictures    topologies that pages show, drawn from the code beside them
    llms        llms.txt and llms-full.txt
    assets/     the style sheet

Nothing generated is kept in the tree: `build/docs` is written anew, and `mkdocs.yml` (read by Zensical) makes `build/site` of it.
"""
