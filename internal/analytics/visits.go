package analytics

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// agentSources has, for each source of people, the agents of its operator: a test of the table of agents compares them.
const agentSources = `
andi: Andibot
baidu: Baiduspider, Baiduspider-render
bing: bingbot, BingPreview
bluesky: Bluesky Cardyb
brave: BraveBot
chatglm: ChatGLM-Spider
chatgpt: ChatGPT Agent, ChatGPT-Browser, ChatGPT-User, codex, codex-cli, GPTBot, OAI-SearchBot
claude: anthropic-ai, claude-code, Claude-SearchBot, Claude-User, Claude-Web, ClaudeBot
copilot: GithubCopilot, GitHubCopilotChat
cursor: Cursor
deepseek: DeepSeekBot
devin: Devin
discord: Discordbot
duck.ai: DuckAssistBot
duckduckgo: DuckDuckBot, DuckDuckBot-Https
ernie: YiyanBot
facebook: facebookexternalhit
gemini: Gemini-Deep-Research, GeminiCLI, Google-Agent, Google-Extended, Google-Gemini-CLI
gemini: Google-GeminiNotebook, Google-NotebookLM, GoogleAgent-Mariner, GoogleAgent-URLContext, NotebookLM
google: Google-InspectionTool, GoogleAgent-Search, Googlebot, Googlebot-Image, Googlebot-News, Googlebot-Video
google: Storebot-Google
iask: iAskBot, iaskspider
kagi: kagi-fetcher, Kagibot
kimi: Kimi-SearchBot, Kimi-User, KimiBot
liner: LinerBot
linkedin: LinkedInBot
manus: Manus-User
meta-ai: FacebookBot, meta-externalagent, meta-externalfetcher, meta-webindexer
mistral: MistralAI-Index, MistralAI-Training, MistralAI-User
mojeek: MojeekBot
naver: Yeti
perplexity: Perplexity-User, PerplexityBot, PerplexityUser
petal: PetalBot
phind: PhindBot
pinterest: Pinterestbot
qwant: Qwantbot
qwen: QwenCode, TongyiBot
seznam: SeznamBot
slack: Slack-ImgProxy, Slackbot, Slackbot-LinkExpanding
telegram: TelegramBot
whatsapp: WhatsApp
windsurf: Windsurf
x: Twitterbot
yahoo: Slurp
yandex: YandexAdditional, YandexAdditionalBot, YandexBot
you: YouBot
`

var sourceOfAgent = sync.OnceValue(func() map[string]string {
	of := map[string]string{}
	for line := range strings.Lines(strings.TrimSpace(agentSources)) {
		source, agents, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for agent := range strings.SplitSeq(agents, ", ") {
			of[agent] = source
		}
	}
	return of
})

// SourceOfAgent returns the source of the people whom the operator of an agent sends; empty for none.
func SourceOfAgent(agent string) string { return sourceOfAgent()[agent] }

// hasAgents reports whether the operator of any agent sends people of this source.
func hasAgents(source string) bool {
	return slices.Contains(slices.Collect(maps.Values(sourceOfAgent())), source)
}
