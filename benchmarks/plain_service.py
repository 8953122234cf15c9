"""The service that FastAPI's tutorial leads to: one request, one line, one update. `benchmarks/serve.py` compares with it.

`/v1/observations` checks its line by a Pydantic model, as `sooner serve` checks its lines; `/v1/unchecked` takes any JSON as it
comes, which is the least that a service can do.
"""

import json
import sys

import uvicorn
from fastapi import FastAPI, Request
from pydantic import BaseModel

import sooner


class Observation(BaseModel):
    series: str
    x: list[float]


def main() -> None:
    clf = sooner.load(sys.argv[1])
    clf.threshold = 1e9
    fleet = clf.stream(keyed=True)
    app = FastAPI()

    @app.post("/v1/observations")
    async def observe(line: Observation) -> dict[str, int]:
        fleet.update({line.series: line.x})
        return {"accepted": 1}

    @app.post("/v1/unchecked")
    async def unchecked(request: Request) -> dict[str, int]:
        record = json.loads(await request.body())
        fleet.update({record["series"]: record["x"]})
        return {"accepted": 1}

    uvicorn.run(app, port=int(sys.argv[2]), log_level="error")


if __name__ == "__main__":
    main()
