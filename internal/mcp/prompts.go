package mcp

import (
	"context"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/docgauge/docgauge/internal/analytics"
)

// addPrompts offers the questions that people ask most.
func addPrompts(s *sdk.Server) {
	offer := func(name, title, about string) {
		s.AddPrompt(&sdk.Prompt{
			Name: name, Title: title, Description: about,
			Arguments: []*sdk.PromptArgument{{
				Name: "project", Title: "Project", Description: "id of the project; not needed if there is one",
			}},
		}, func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			about, err := askedProject(req.Params.Arguments)
			if err != nil {
				return nil, err
			}
			return &sdk.GetPromptResult{Description: title, Messages: []*sdk.PromptMessage{
				{Role: "user", Content: &sdk.TextContent{Text: fmt.Sprintf(textOf(name), about)}},
			}}, nil
		})
	}
	offer("weekly_review", "Weekly review", "What happened to the readers of the documentation in the newest week.")
	offer("pages_that_need_work", "Which pages need work",
		"Pages that lose readers, or that AI agents read and people do not, with reasons.")
}

// askedProject returns the subject of a prompt, as part of a sentence.
func askedProject(arguments map[string]string) (string, error) {
	id := arguments["project"]
	for name := range arguments {
		if name != "project" {
			return "", fmt.Errorf("argument %.40q is not known; there is project", name)
		}
	}
	switch {
	case id == "":
		return "the documentation (call projects first: if there are several, ask which one)", nil
	case analytics.CheckProject(id) != nil:
		return "", errors.New("project: want 1 to 128 letters, digits, - or _: the tool projects lists them")
	}
	return "the project " + id, nil
}
