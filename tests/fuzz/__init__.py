"""Fuzzers: seeded generators over every reader and door, and a driver that counts what comes of them.

`make fuzz` runs 100,000 inputs, `make fuzz N=1000000` a million. Input number i of seed s is a pure function of (s, i), so
`make fuzz SEED=s CASE=i` runs one of them again, alone and in the open.

============= ===========================================================================================================
count         what it means
============= ===========================================================================================================
accepted      it was read, and an independent plain reader (or a definition in loops) agrees with what was read
sentences     it was refused by an error of `sooner.errors`, in one line that can be printed
tracebacks    any other exception, or an error whose message is not one line
noise         text on the standard output or the standard error besides
wrong         it was read, and means something else than the plain reader says
hangs         it took longer than 20 seconds
memory        it took more than 2 GB
crashes       the process died
============= ===========================================================================================================
"""
