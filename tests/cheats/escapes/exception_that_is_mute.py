# ESCAPE: an exception that will not be printed
# END: raised
# SAYS: cannot be printed


def run():
    class Mute(Exception):
        def __str__(self):
            raise Mute

    raise Mute
