"""The one kind of error that is the user's to mend."""


class InputError(ValueError):
    """Bad input, said in one sentence: what was given, what is wrong, what to do. The command line exits with 2."""
