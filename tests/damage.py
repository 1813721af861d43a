"""Damage to files, drawn at random, for tests of logs and stores."""


def damaged(data, rng, piece):
    """Flip, cut, insert, remove or repeat bytes; what is inserted is drawn by ``piece(rng)``."""
    at, to = sorted(rng.randrange(len(data)) for _ in range(2))
    kind = rng.randrange(5)
    if kind == 0:
        flipped = bytearray(data)
        for _ in range(rng.randint(1, 8)):
            flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(flipped)
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data[:at] + piece(rng) + data[at:]
    return data[:at] + data[to:] if kind == 3 else data[:to] + data[at:to] + data[to:]
