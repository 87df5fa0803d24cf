"""A case: everything that a seed draws. Each dimension has a random number generator of its own, so one that is dropped changes no other."""

import random


class Case:
    def __init__(self, seed, dropped=(), only=None):
        self.seed, self.values, self.drawn = seed, {}, []
        self.is_usual = lambda name: name in dropped or (only is not None and name not in only)

    def chance(self, name):
        """A generator that depends on the seed and the name alone."""
        return random.Random(f"{self.seed}/{name}")

    def pick(self, name, usual, draw):
        """What the dimension is in this case: usual where it is dropped, else draw(generator). Those that are not as usual are `drawn`."""
        if name not in self.values:
            self.values[name] = usual if self.is_usual(name) else draw(self.chance(name))
            if self.values[name] != usual:
                self.drawn.append(name)
        return self.values[name]

    def one_of(self, name, usual, choices):
        return self.pick(name, usual, lambda r: r.choice(choices))

    def maybe(self, name, probability):
        return self.pick(name, False, lambda r: r.random() < probability)
