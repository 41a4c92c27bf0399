"""``seekpoint top``: the processes and the pipeline of a journal, live in a terminal."""
