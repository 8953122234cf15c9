"""The service that one would write in ten lines: one request, one line, one update. `benchmarks/serve.py` compares with it."""

import json
import sys

import uvicorn
from fastapi import FastAPI, Request

import sooner


def main() -> None:
    clf = sooner.load(sys.argv[1])
    clf.threshold = 1e9
    fleet = clf.stream(keyed=True)
    app = FastAPI()

    @app.post("/v1/observations")
    async def observe(request: Request) -> dict[str, int]:
        record = json.loads(await request.body())
        fleet.update({record["series"]: record["x"]})
        return {"accepted": 1}

    uvicorn.run(app, port=int(sys.argv[2]), log_level="error")


if __name__ == "__main__":
    main()
