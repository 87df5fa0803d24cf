#!/usr/bin/env python3
"""`:retrieve` of a two_tower: what `reckon recommend` finds.

    check_retrieve.py PROGRAM [TEST...]      77: this build cannot serve
"""
import threading

from serving import FILMS, main, Server, single, Tests, USERS


class Retrieve(Tests):
    def test_retrieve(self):
        """The items, in their order, and the scores of `reckon recommend`, which looks at all users at once."""
        for item in ("vocabulary: {}", "hash: 500"):
            self.towers(item)
            found = self.recommended(10)
            with Server(self, run="towers", max_rows=600) as s:
                def ask(body, status=200):
                    got = s.json("/v1/models/ads:retrieve", body)
                    assert got[0] == status, got
                    return [(r["items"], r["scores"]) for r in got[1]["result"]] if status == 200 else got[1]["error"]

                def same(got, wanted):
                    assert got[0] == wanted[0] and [*map(single, got[1])] == [*map(single, wanted[1])], (got, wanted)

                many = ask({"instances": self.users, "k": 10})
                for user, got in zip(self.users, many):
                    same(got, found[user["user"]])
                    assert ask({"context": user, "k": 10}) == [got]
                assert ask({"context": {"age": 30}, "instances": [{"user": "u10"}], "k": 10}) == [many[10]]
                known = self.recommended(10, "--with-known")
                for user, got in zip(self.users, ask({"instances": self.users, "k": 10, "with_known": True})):
                    same(got, known[user["user"]])
                every = self.recommended(FILMS)["u3"]
                (all_items, all_scores), = ask({"context": self.users[3], "k": 1000})
                same((all_items, all_scores), every)
                assert len(ask({"context": self.users[3]})[0][0]) == len(all_items) < FILMS
                without = ask({"context": self.users[3], "k": 10, "exclude": [*all_items[:4], all_items[6], "film, \"none\"", None, 7]})[0][0]
                assert without == [*all_items[4:6], *all_items[7:15]], without
                alone = {"filter": [*all_items[9:5:-1], all_items[2], "film, \"none\""], "context": self.users[3], "k": 10}
                assert ask(alone) == [([all_items[2], *all_items[6:10]], [all_scores[2], *all_scores[6:10]])]
                assert ask({**alone, "exclude": [all_items[7]]})[0][0] == [all_items[2], all_items[6], *all_items[8:10]]
                assert ask({"instances": self.users[:3], "filter": []}) == [([], [])] * 3 and ask({"instances": []}) == []
                stranger = ask({"instances": [{"user": "nobody", "age": 30}, self.users[1], {"user": None, "age": 3}], "k": 10})
                assert stranger == [([], []), many[1], ([], [])], stranger
                for body, words in (({"k": 3}, "context"), ({"context": self.users[0], "k": 0}, "k"), ({"context": {"user": "u1"}}, "age"), ({"context": self.users[0], "filter": {}}, "list"),
                                    ({"context": self.users[0], "exclude": [["a"]]}, "list"), ({"context": {"user": "u1", "age": "old"}}, "age"), ({"inputs": {}}, "not known"),
                                    ({"context": self.users[0], "exclude": [], "exclude ": []}, "not known")):
                    assert words in ask(body, 400), body
                assert "in all" in ask({"instances": self.users, "k": 11}, 413)
                for what in (":predict", ":regress"):
                    status, answer = s.predict({"instances": self.users[:1]}, what)
                    assert status == 400 and ":retrieve" in answer["error"], answer
                assert s.json("/v2/models/ads/infer", {"inputs": []})[0] == 400
                inputs = s.json("/v1/models/ads/metadata")[1]["metadata"]["signature_def"]["signature_def"]["serving_default"]
                assert sorted(inputs["inputs"]) == ["age", "user"] and sorted(inputs["outputs"]) == ["items", "scores"], inputs
                failures = []

                def client(number):
                    for user in range(number, USERS, 4):
                        if ask({"context": self.users[user], "k": 10}) != [many[user]]:
                            failures.append(user)

                threads = [threading.Thread(target=client, args=(i,)) for i in range(4)]
                [t.start() for t in threads]
                [t.join() for t in threads]
                assert not failures, failures
            (self.folder / "items.txt").write_text("\n".join(all_items[:9]))
            (self.folder / "without.txt").write_text("\n".join(all_items[2:5]))
            files = self.recommended(20, "--items", self.folder / "items.txt", "--without-items", self.folder / "without.txt", "--with-known")
            with Server(self, run="towers", model=", items: items.txt, without_items: without.txt, with_known: true") as s:
                same(ask({"context": self.users[3], "k": 20})[0], files["u3"])
        with Server(self) as s:
            assert "two_tower" in s.predict({"context": self.instances[0]}, ":retrieve")[1]["error"]


if __name__ == "__main__":
    main(Retrieve)
