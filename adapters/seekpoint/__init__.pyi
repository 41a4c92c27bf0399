# Tells Pyright that this folder is a part of the package of api/seekpoint/__init__.py.
# Python does not read this file, and the wheel does not have it.
