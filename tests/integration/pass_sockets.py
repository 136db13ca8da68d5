#!/usr/bin/env python3
"""pass_sockets.py COUNT ADDRESS PORT PROGRAM [ARGUMENT...]: becomes PROGRAM, with COUNT listening
SO_REUSEPORT sockets of one address passed to it, as systemd does it for a socket unit with
ReusePort=yes. PORT 0: any free one."""

import fcntl
import os
import socket
import sys

FIRST = 3  # SD_LISTEN_FDS_START


def listening(address, port):
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind((address, port))
    made.listen()
    return made


def main():
    count, address, port, *command = sys.argv[1:]
    sockets = [listening(address, int(port))]
    while len(sockets) < int(count):
        sockets.append(listening(address, sockets[0].getsockname()[1]))
    # Copies above the numbers that they are to have; dup2() makes those inheritable.
    above = FIRST + len(sockets)
    copies = [fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, above) for made in sockets]
    for number, copy in enumerate(copies, FIRST):
        os.dup2(copy, number)
    os.environ.update(LISTEN_FDS=str(len(sockets)), LISTEN_PID=str(os.getpid()),
                      LISTEN_FDNAMES=":".join(["clients"] * len(sockets)))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
