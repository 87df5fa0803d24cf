#!/usr/bin/env python3
"""`:retrieve` by an index file: what `reckon recommend --index` finds, bit for bit; versions and the indexes that go with them.

    check_index.py PROGRAM [TEST...]      77: this build cannot serve
"""
import json
import shutil
import subprocess
import time

from serving import FILMS, main, Server, single, Tests


class Index(Tests):
    def make_index(self, run, output, recall="0.3"):
        subprocess.run([self.program, "index", "--kind", "ivf", "--recall", recall, "--top-k", "5", "--output", output, run], check=True, capture_output=True)

    @staticmethod
    def ask(s, body, path="/v1/models/ads:retrieve"):
        status, answer = s.json(path, body)
        assert status == 200, answer
        return [(user["items"], [*map(single, user["scores"])]) for user in answer["result"]]

    def best(self, k, *more):
        return {user: (items, [*map(single, scores)]) for user, (items, scores) in self.recommended(k, *more).items()}

    def test_answers(self):
        for item in ("vocabulary: {}", "hash: 500"):
            self.towers(item)
            file = self.folder / "items.faiss"
            self.make_index(self.folder / "towers", file)
            exact, found = self.best(10), self.best(10, "--index", file)
            assert exact != found, "the index looks at all lists: it tests nothing"
            with Server(self, run="towers", max_rows=600, model=", index: items.faiss") as s:
                many = self.ask(s, {"instances": self.users, "k": 10})
                assert dict(zip((user["user"] for user in self.users), many)) == found
                assert all(self.ask(s, {"context": user, "k": 10}) == [got] for user, got in zip(self.users[:9], many))
                known = self.best(10, "--index", file, "--with-known")
                assert self.ask(s, {"instances": self.users, "k": 10, "with_known": True}) == [known[user["user"]] for user in self.users]
                # Where there are fewer than k items the search looks at all lists.
                (items, scores), = self.ask(s, {"context": self.users[3], "k": 1000})
                assert (items, scores) == self.best(FILMS, "--index", file)["u3"] and items == self.best(FILMS)["u3"][0]
                alone, = self.ask(s, {"context": self.users[3], "k": 10, "filter": [*items[9:5:-1], items[2], items[2], "film, \"none\""]})
                assert alone == ([items[2], *items[6:10]], [scores[2], *scores[6:10]])
                assert self.ask(s, {"context": self.users[3], "k": 10, "filter": items[4:9], "exclude": [items[5], None]}) == [([items[4], *items[6:9]], [scores[4], *scores[6:9]])]
                assert self.ask(s, {"context": self.users[3], "k": 10, "filter": []}) == [([], [])]
                assert not set(items[:4]) & set(self.ask(s, {"context": self.users[3], "k": 30, "exclude": items[:4]})[0][0])
                assert self.ask(s, {"instances": [{"user": "nobody", "age": 30}, self.users[1]], "k": 10}) == [([], []), many[1]]
                # The file is mapped: what takes its name does not change a version that is in use.
                self.make_index(self.folder / "towers", self.folder / "new", "0.9")
                (self.folder / "new").rename(file)
                assert self.ask(s, {"instances": self.users, "k": 10}) == many
            (self.folder / "some.txt").write_text("\n".join(items[:9]))
            few = self.best(20, "--index", file, "--items", self.folder / "some.txt", "--with-known")
            with Server(self, run="towers", model=", index: items.faiss, items: some.txt, with_known: true") as s:
                assert self.ask(s, {"context": self.users[3], "k": 20}) == [few["u3"]]

    def test_versions(self):
        """A version needs the index that was made of it; one that has another's is refused, with its reason, and served once it has its own."""
        self.towers("vocabulary: {}")
        folder, of = self.folder / "shop", [self.folder / f"{v}.faiss" for v in (1, 2)]
        shutil.move(self.folder / "towers", folder / "1")
        subprocess.run([self.program, "train", "-q", "--set", "train.seed=9", "--output", folder / "2", self.folder / "towers.yaml"], check=True)
        for v in (1, 2):
            self.make_index(folder / str(v), of[v - 1])
        wanted = []
        for v in (1, 2):
            out = subprocess.run([self.program, "recommend", "--format", "jsonl", "-k", "10", "--index", of[v - 1], folder / str(v)], check=True, capture_output=True, text=True).stdout
            wanted.append([(row["items"], [*map(single, row["scores"])]) for row in map(json.loads, out.splitlines())])
        assert wanted[0] != wanted[1]
        with Server(self, run="shop", max_rows=600, model=", num_versions: 2, index: \"{version}.faiss\"") as s:
            for v in (1, 2):
                assert self.ask(s, {"instances": self.users, "k": 10}, f"/v1/models/ads/versions/{v}:retrieve") == wanted[v - 1]
        shutil.copy(of[0], self.folder / "now.faiss")
        with Server(self, run="shop", max_rows=600, model=", num_versions: 2, index: now.faiss") as s:
            def states():
                return [(v["version"], v["state"], v["status"]["error_message"]) for v in s.json("/v1/models/ads")[1]["model_version_status"]]

            got = states()
            assert [v[:2] for v in got] == [("1", "AVAILABLE"), ("2", "END")] and "now.faiss" in got[1][2] and "index of another model" in got[1][2] and "reckon index" in got[1][2], got
            assert self.ask(s, {"instances": self.users, "k": 10}) == wanted[0]
            shutil.copy(of[1], self.folder / "next.faiss")
            (self.folder / "next.faiss").rename(self.folder / "now.faiss")
            for _ in range(100):
                if [v[:2] for v in states()] == [("2", "AVAILABLE"), ("1", "AVAILABLE")]:
                    break
                time.sleep(0.1)
            assert self.ask(s, {"instances": self.users, "k": 10}) == wanted[1], states()
            assert self.ask(s, {"instances": self.users, "k": 10}, "/v1/models/ads/versions/1:retrieve") == wanted[0]

    def test_refused(self):
        self.towers("vocabulary: {}")
        self.make_index(self.folder / "towers", self.folder / "items.faiss")
        (self.folder / "no.faiss").write_text("user,item\n")
        for run, model, words in (("run", "index: items.faiss", "index is of a two_tower alone"), ("run", "items: pairs.csv", "items is of a two_tower alone"),
                                  ("towers", "index: none.faiss", "none.faiss"), ("towers", "index: no.faiss", "no.faiss"), ("towers", "index: \"{version}{version}.faiss\"", "1616.faiss")):
            (self.folder / "bad.yaml").write_text(f"listen: 127.0.0.1:0\nmodels: [{{name: ads, path: {run}, {model}}}]")
            ended = subprocess.run([self.program, "serve", self.folder / "bad.yaml"], capture_output=True, text=True, timeout=20)
            assert ended.returncode == 1 and words in ended.stderr, (model, ended)


if __name__ == "__main__":
    main(Index)
