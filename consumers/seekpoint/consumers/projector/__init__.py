"""The projector: fold the journal into the view and save checkpoints."""
