"""What each command is given and its help, one file a command; no file here waits for torch.

The work of `commands/score.py` is in `cli/score.py`, which is imported when the command is run.
"""
