"""Plugins at random: what each reads, how, in which hook, and how and where it shows it. The same seed makes the same plugins."""

import dataclasses
import random

import ways


@dataclasses.dataclass
class Plugin:
    """One plugin, and the part of it that is in a file of its own, or ''. `about`: the letter of the secrets that it is about. `plain`: it reads
    one cookie by its name, so that others may share its page. `clear`: there are secrets in what it reads. `made`: it shows ids that it has made."""

    number: int
    seed: str
    about: str
    form: str
    place: str
    path: str
    code: str
    part: str
    plain: bool = False
    clear: bool = True
    made: bool = False

    def text(self):
        """As people read it."""
        part = f"\n--- its part:\n{self.part}" if self.part else ""
        return f"plugin {self.number} of --seed {self.seed}, about {self.about!r}, at {self.path}\n{self.code}{part}"


class Generator:
    """Makes plugins; half of them with ways that were `found` in the function table, and in hooks that were seen (stage.Found). `vip`: secrets, by letter, of
    the member for whom some plugins say something else than for all others."""

    def __init__(self, seed, login, found=None, vip=None):
        self.seed, self.login, self.found, self.vip = seed, login, found, vip or {}

    def plugin(self, number, about):
        """The plugin with that number, about one of these letters."""
        dice = random.Random(f"{self.seed} {number}")
        if about == "i":
            return self.made(dice, number)
        if about == "g" and dice.random() < 0.7:
            return self.named(dice, number)
        found = self.found.way(dice, about) if self.found and dice.random() < 0.5 else None
        if found:
            letters, way, clear = found
            return self.put(dice, number, letters, way, clear=clear)
        source = dice.choice([one for one in ways.ALL if one.letter in about])
        way, plain, is_global = self.written(dice, source)
        return self.put(dice, number, source.letter, way, plain=plain, is_global=is_global, clear=source.letter != "k")

    def written(self, dice, source):
        """A way from the lists; whether it reads one cookie by its name; whether it is for the global scope."""
        arrays = list(ways.OF_ARRAYS) if source.array else []
        is_global = bool(arrays) and dice.random() < 0.08
        lists = list(ways.GLOBAL) if is_global else dice.choice([one for one in (arrays, list(source.ways)) if one])
        form = dice.choice(lists)
        way = form.format(A=source.array, N=source.array[1:], K=source.key, R=source.key[::-1]).replace("{LOGIN}", self.login).replace("}NIGOL{", self.login[::-1])
        return way, form in ways.OF_ARRAYS[:5] and source.array == "$_COOKIE", is_global

    def put(self, dice, number, letter, way, plain=False, is_global=False, clear=True):
        """A plugin with that way."""
        form = dice.choice(ways.CART_FORMS if letter == "k" else ways.FORMS if clear else ways.BLURRED_FORMS)
        if letter in self.vip and dice.random() < 0.6:
            form = "vip"
        hook = dice.choice(["", *ways.HOOKS])
        if self.found and dice.random() < 0.5:
            hook = dice.choice(self.found.hooks)
        part = f"<?php return {way};" if dice.random() < 0.15 and not is_global else ""
        has_text = False
        for _ in range(0 if is_global else dice.randrange(3)):
            is_eval = not has_text and dice.random() < 0.15
            has_text |= is_eval
            way = (ways.EVAL if is_eval else dice.choice(ways.WRAPS[:-1])).replace("@@", way)
        if part:
            way = ways.WRAPS[-1].replace("{PART}", f"{number}.inc")
        place = dice.choice(ways.LATE * 2 + ways.MIDDLE * 2 + ways.EARLY)
        if is_global:
            body = f"(static fn ($v) => Guess::take(fn () => $v))({way});"
        elif dice.random() < 0.1:
            body, place = dice.choice(ways.ENDS).replace("@@", way), ""
        elif not hook or dice.random() < 0.1:
            body = f"Guess::take(fn () => {way});"
        else:
            body = f"add_filter('{hook}', function ($x = null) {{ Guess::take(fn () => {way}); return $x; }}, {dice.choice([1, 10, 99, -5])});"
        if place in ways.LATE + ways.MIDDLE and dice.random() < 0.15:
            body += f"\n{ways.STREAM}"
        paths = ["/sample-page/"] * 10 + ["/", "/nothing-here/", "/hello-world/", "/feed/", "/wp-json/wp/v2/pages"]
        path = dice.choice(ways.CART_PATHS if letter == "k" else paths[:10] if plain or letter in "wemdg" else paths)
        show = f"Guess::show('{place}');\n" if place else ""
        says = f"Guess::plays({number}, '{form}', '{letter}', {str(clear).lower()}, '{self.vip.get(letter, '')}');"
        return Plugin(number, self.seed, letter, form, place, f"{path}?g={number}", f"<?php\n{says}\n{body}\n{show}", part, plain, clear)

    def made(self, dice, number):
        """A plugin that gives each visitor an id, by a cookie."""
        way, hook = dice.choice(ways.MADE), dice.choice(["", "plugins_loaded", "init", "wp_loaded", "template_redirect", "send_headers"])
        sent = dice.choice(["setcookie('basket', $id);", "header(\"Set-Cookie: basket=$id; Path=/\", false);", "header_register_callback(fn () => setcookie('basket', $id));", "setrawcookie('basket', $id, time() + 99);"])
        # Processes may ask in the same microsecond.
        act = f"$id = 'zqi' . sprintf('%03d', {number} % 1000) . substr(md5({way} . getmypid()), 0, 16); {sent} Guess::take(fn () => $id);"
        body = f"add_filter('{hook}', function ($x = null) {{ {act} return $x; }});" if hook else f"(function () {{ {act} }})();"
        place = dice.choice(["head", "foot", "end", "content", "buffer"])
        code = f"<?php\nGuess::plays({number}, 'secret', 'i');\n{body}\nGuess::show('{place}');\n"
        return Plugin(number, self.seed, "i", "secret", place, f"/sample-page/?g={number}", code, "", made=True)

    def named(self, dice, number):
        """A plugin that prints a member's name, or decides by it, in its own code. Where it only prints, others share its page."""
        keeps = dice.random() < 0.4
        way, vip = dice.choice(ways.NAMES), self.vip.get("g", "")
        for _ in range(dice.randrange(3)):
            way = dice.choice(ways.KEEPING).replace("@@", way)
        if not keeps:
            way = dice.choice(ways.CHOOSING).replace("@@", f"({way})")
            way = way.replace("NAME VIP", f"{self.vip.get('name', '')} {vip}").replace("VIP", vip)
        shown = f"'[[['; echo {way}; echo ']]]'"
        code = dice.choice([
            f"echo {shown};",
            f"$said = {way}; echo \"[[[$said]]]\";",
            f"$said = '[[['; $said .= {way}; echo $said . ']]]';",
            f"if ({way}) {{ echo {shown}; }}",
            f"printf('[[[%s]]]', {way});",
        ])
        hook = dice.choice(["wp_footer", "wp_head", "wp_body_open", "wp_footer"])
        body = f"add_action('{hook}', function () {{ $user = wp_get_current_user(); {code} }}, {dice.choice([1, 10, 99])});"
        return Plugin(number, self.seed, "g", "named", hook, f"/sample-page/?g={number}", f"<?php\n{body}\n", "", plain=keeps)
