#!/usr/bin/env python3
"""Random 4 KiB reads of a hard disk with a queue, simulated a second time.

Prints reads per second for some depths. The disk: a seek curve a + b sqrt(d) + c d through three times,
platters that turn by the clock, tracks with equal bytes within 24 zones, and the next request is the one that
is reached first, where each unit of waiting counts as `ageing` units nearer. tests/theory.rs holds the
figures that it prints.
"""
import math
import random

RPM, HEADS, TRACK, MEAN, FULL = 7200, 4, 0.8e-3, 8.5e-3, 17e-3
SWITCH, OVERHEAD, OUTER, INNER, AGEING = 0.9e-3, 0.1e-3, 130e6, 65e6, 0.05
SIZE, ZONES, BLOCK = 64 << 30, 24, 4096
TURN = 60 / RPM
ROOT = ((MEAN - TRACK) - (FULL - TRACK) / 3) / (8 / 15 - 1 / 3)
LINEAR = (FULL - TRACK) - ROOT

rates = [OUTER + (INNER - OUTER) * (zone + 0.5) / ZONES for zone in range(ZONES)]
per_track = [rate * (TURN + SWITCH) for rate in rates]
tracks = math.ceil(SIZE / sum(per_track))
begins = [0]
for size in per_track:
    begins.append(begins[-1] + int(tracks * size))
cylinders = math.ceil(tracks * ZONES / HEADS)


def place(byte):
    zone = max(index for index in range(ZONES) if begins[index] <= byte)
    within = byte - begins[zone]
    track = min(int(within / per_track[zone]), tracks - 1)
    return zone * tracks + track, (within - track * per_track[zone]) / per_track[zone], per_track[zone]


def reach(now, head, spot):
    track, angle, _ = spot
    if track == head:
        move = 0
    elif track // HEADS == head // HEADS:
        move = SWITCH
    else:
        distance = abs(track // HEADS - head // HEADS) / cylinders
        move = TRACK + ROOT * math.sqrt(distance) + LINEAR * distance
    turns = (angle + track * SWITCH / TURN - (now + move) / TURN) % 1
    return move + (0 if turns > 1 - 3e-6 / TURN else turns * TURN)


def run(depth, count, seed):
    draw = random.Random(seed)
    fresh = lambda now: (now, place(draw.randrange(SIZE // BLOCK) * BLOCK))
    queue, now, head, owed = [fresh(0) for _ in range(depth)], 0, 0, 0
    for _ in range(count):
        # The disk goes on before the host has seen the end, and has asked for something else.
        if not queue:
            queue, owed = [fresh(now)], owed - 1
        chosen = min(queue, key=lambda one: reach(now, head, one[1]) - (now - one[0]) * AGEING)
        queue.remove(chosen)
        if owed:
            queue, owed = queue + [fresh(now)], owed - 1
        since, spot = chosen
        begin = max(now, since + OVERHEAD)
        now = begin + reach(begin, head, spot) + BLOCK / spot[2] * TURN
        head, owed = spot[0], owed + 1
    return count / now


if __name__ == "__main__":
    for depth in (1, 4, 16, 31):
        print(depth, *(round(run(depth, 20000, seed), 1) for seed in (1, 2)))
