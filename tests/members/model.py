"""Members, and what each page has to show each of them: the model of the random steps of tests/members.

The model knows of each member the role, the name, what he has done, and on which devices he is logged in; and the text of each page. After each
step it compares them with the page that the server sends.
"""

import collections

from browsing import check, how, same
from club import NAMES, PASSWORD, SHARED, Browser, own

RENAMED = [name.replace(" ", "n ") for name in NAMES]


class Model:
    """Some members; each comes with one device, or two."""

    def __init__(self, club, dice, members):
        self.club, self.dice, self.members = club, dice, members
        self.done, self.acts, self.views = collections.deque(maxlen=8), collections.Counter(), collections.Counter()
        self.devices = {member.number: [member] for member in members}
        self.counts = {member.number: {"progress": 0, "orders": 0} for member in members}
        for member in members:
            for name in self.counts[member.number]:
                self.counts[member.number][name] = int(own(member.ask(f"/{name}/").text).split()[1])
        self.versions = dict.fromkeys(SHARED, 1)

    def step(self):
        acts = [self.look] * 30 + [self.look_at_own] * 3 + [self.act] * 4 + [self.look_at_list, self.edit, self.change_role, self.rename, self.second_device, self.leave]
        acts += [self.change_password, self.change_rights] if self.dice.random() < 0.2 else []
        act, number = self.dice.choice(acts), self.dice.choice(list(self.devices))
        self.done.append(act.__name__)
        self.acts[act.__name__] += 1
        act(number, self.dice.choice(self.devices[number]))

    def look(self, number, device):
        name = self.dice.choice(list(SHARED))
        self.done[-1] += f" {device.name} /{name}/"
        answer = device.view(name)
        self.views[how(answer)] += 1
        check(f"version-{self.versions[name]} " in answer.text, f"{how(answer)}: not version {self.versions[name]} of {name}")

    def look_at_list(self, number, device):
        answer = device.view("directory")
        check(how(answer) != "hit", "a list with the reader in it is a hit")
        shown = [part.split("<")[0] for part in answer.text.split("<li>") if part.split("<")[0] in NAMES + RENAMED]
        same(sorted(shown), sorted(some[0].name for some in self.devices.values()), f"{how(answer)}: the list")

    def look_at_own(self, number, device):
        name = self.dice.choice(["progress", "orders"])
        answer = device.view(name)
        check(how(answer) != "hit", "a personal page is a hit")
        same(own(answer.text), f"{name} {self.counts[number][name]}", device.name)

    def act(self, number, device):
        """A form; then a page, at once."""
        name, what = self.dice.choice([("progress", "progress"), ("orders", "order")])
        device.ask(f"/{name}/", {"club": what})
        self.counts[number][name] += 1
        if self.dice.random() < 0.5:
            same(own(device.view(name).text), f"{name} {self.counts[number][name]}", device.name)
        self.look(number, device)

    def edit(self, number, device):
        name = self.dice.choice(list(self.versions))
        self.versions[name] += 1
        self.club.do("text", page=name, text=SHARED[name].replace("version-1", f"version-{self.versions[name]}"))
        self.look(number, device)

    def change_role(self, number, device):
        role = "silver" if device.role == "gold" else "gold"
        for each in self.devices[number]:
            each.role = role
        self.club.do("role", user=number, role=role)
        device.view(self.dice.choice(list(SHARED)))

    def rename(self, number, device):
        at = [member.number for member in self.members].index(number)
        names = [NAMES[at], RENAMED[at]]
        name = names[1 - names.index(device.name)]
        for each in self.devices[number]:
            each.name = name
        self.club.do("rename", user=number, name=name)
        device.view(self.dice.choice(list(SHARED)))

    def second_device(self, number, device):
        if len(self.devices[number]) < 2:
            # It gets nonces of its own.
            other = Browser.__new__(Browser)
            other.__dict__.update(device.__dict__, cookies={}, connection=None)
            other.enter()
            self.devices[number].append(other)

    def leave(self, number, device):
        """A log-out; the other device stays. Then a log-in, sooner or later."""
        device.cookies = device.log_out()
        answer = device.ask("/news/")
        check("Hello" not in answer.text and "secret of" not in answer.text, f"{how(answer)}: after the log-out")
        for other in self.devices[number]:
            if other is not device:
                other.view("news")
        device.enter()

    def change_password(self, number, device):
        self.club.do("password", user=number, password=PASSWORD)
        for each in self.devices[number]:
            answer = each.ask("/news/")
            check("Hello" not in answer.text, f"{how(answer)}: with the cookies of before")
            each.enter()

    def change_rights(self, number, device):
        """What silver members may read, for a moment."""
        self.club.do("rights", may="1")
        for some in self.devices.values():
            some[0].view("guide", "gold")
        self.club.do("rights", may="0")
        for some in self.devices.values():
            some[0].view("guide")
