# ESCAPE: thread bomb
# END: raised
# SAYS: can't start new thread
import threading
import time


def run():
    while True:
        threading.Thread(target=time.sleep, args=(9,)).start()
