"""Asks docgauge with the PyPI client: client.py URL, or client.py COMMAND ARGUMENT...

The questions come as JSON on standard input, {tool: arguments}; the answers, which the
client has checked by the schemas of their tools, go to standard output.
"""
import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters


async def main():
    server = sys.argv[1]
    if not server.startswith("http"):
        server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ))
    questions = json.load(sys.stdin)
    async with Client(server) as client:
        tools = (await client.list_tools()).tools
        prompts = (await client.list_prompts()).prompts
        review = await client.get_prompt("weekly_review", {"project": "prj_sandbox"})
        said = {
            "tools": sorted(t.name for t in tools),
            "read_only": all(t.annotations.read_only_hint for t in tools),
            "prompts": sorted(p.name for p in prompts),
            "review": review.messages[0].content.text,
            "answers": {},
        }
        for name, arguments in questions.items():
            r = await client.call_tool(name, arguments)
            said["answers"][name] = {"failed": bool(r.is_error), "answer": r.structured_content, "text": r.content[0].text}
    json.dump(said, sys.stdout)


asyncio.run(main())
