"""Recovery on demand: a service that answers recovery requests of other nodes."""
