"""Agents that speak the Model Context Protocol use the models of the server."""

import asyncio

import pytest

mcp = pytest.importorskip("mcp")


def test_mcp_tools_return_the_same_models_and_predictions_as_the_api(address, client):
    async def talk():
        async with mcp.Client(f"{address}/mcp") as agent:
            names = [tool.name for tool in (await agent.list_tools()).tools]
            models = await agent.call_tool("models", {})
            rows = await agent.call_tool("predict", {"smiles": ["CCO", "bad("], "coverage": 0.5})
            fault = await agent.call_tool("predict", {"smiles": ["CCO"], "model": "other"})
            empty = await agent.call_tool("predict", {"smiles": []})
            return names, models, rows, fault, empty

    names, models, rows, fault, empty = asyncio.run(talk())
    assert names == ["models", "predict"]
    assert models.structured_content == {"result": client.get("/models").json()}
    body = {"smiles": ["CCO", "bad("], "coverage": 0.5}
    assert rows.structured_content == client.post("/predict", json=body).json()
    assert fault.is_error
    assert "at least 1 item" in empty.content[0].text
    assert "there is no model of molecules 'other'" in fault.content[0].text


def test_mcp_requests_require_the_token_and_respect_the_size_limit(client_of, tmp_path):
    file = tmp_path / "token.txt"
    file.write_text("correct horse battery")
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"accept": "application/json, text/event-stream"}
    with client_of(host="0.0.0.0", token_file=str(file), max_megabytes=0.01) as client:
        assert client.post("/mcp", json=call, headers=headers).status_code == 401
        headers["authorization"] = "Bearer correct horse battery"
        assert client.post("/mcp", json=call, headers=headers).status_code == 200
        large = call | {"params": {"text": "C" * 20_000}}
        assert client.post("/mcp", json=large, headers=headers).status_code == 413
        assert client.get("/mcp", headers=headers).status_code == 405
