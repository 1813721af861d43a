"""The server of `biaslab.testing` with OpenAI's files and batches, which are done at once."""

import json

from aiohttp import web

from biaslab.testing import FaultServer


class BatchServer(FaultServer):
    """A server that also takes files of requests."""

    def __init__(self, *options, **named):
        super().__init__(*options, **named)
        self.files, self.batches = {}, {}

    def add_routes(self, router):
        super().add_routes(router)
        router.add_post("/v1/files", self.upload)
        router.add_get("/v1/files/{id}/content", self.download)
        router.add_post("/v1/batches", self.batch)
        router.add_get("/v1/batches", self.listed)
        router.add_get("/v1/batches/{id}", self.batch_status)

    async def upload(self, request):
        form = await request.post()
        name = f"file-{len(self.files)}"
        self.files[name] = form["file"].file.read().decode()
        return web.json_response({"id": name, "object": "file", "purpose": "batch", "filename": "x", "bytes": 1,
                                  "created_at": 0, "status": "processed"})  # fmt: skip

    async def download(self, request):
        return web.Response(text=self.files[request.match_info["id"]])

    async def batch(self, request):
        body = await request.json()
        name = f"batch-{len(self.batches)}"
        lines = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
        results = [self.result(line) for line in lines]
        self.files[f"out-{name}"] = "\n".join(map(json.dumps, results))
        self.batches[name] = {
            "id": name, "object": "batch", "endpoint": body["endpoint"], "input_file_id": body["input_file_id"],
            "completion_window": "24h", "created_at": 0, "status": "completed", "output_file_id": f"out-{name}",
            "request_counts": {"total": len(lines), "completed": len(lines), "failed": 0},
        }  # fmt: skip
        return web.json_response(self.batches[name])

    def result(self, line):
        body = line["body"]
        text = "\n".join(m["content"] for m in body["messages"])
        self.paid[text] += 1
        response = {"status_code": 200, "request_id": "r", "body": self.document(body, text)}
        return {"id": f"r-{line['custom_id'][:8]}", "custom_id": line["custom_id"], "response": response, "error": None}

    async def listed(self, request):
        names, after = [*self.batches][::-1], request.query.get("after")
        start = 0 if after is None else names.index(after) + 1
        page = names[start : start + int(request.query.get("limit", 20))]
        data = [self.batches[name] for name in page]
        return web.json_response({"object": "list", "data": data, "has_more": start + len(page) < len(names)})

    async def batch_status(self, request):
        return web.json_response(self.batches[request.match_info["id"]])
