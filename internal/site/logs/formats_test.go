package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hit is a request, as every format says it.
type hit struct {
	at                        time.Time
	client, host, path, agent string
	status                    int

	referrer, mode string
	bytes          int64 // -1: the line does not say them
}

// truth are some requests.
func truth() (all []hit) {
	at := time.Date(2026, 11, 1, 0, 3, 48, 0, time.UTC)
	clients := []string{"192.0.2.1", "203.0.113.77", "2001:db8::5", "2001:db8:1:2:3:4:5:6"}
	agents := []string{"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "curl/8.5.0", "",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Claude-User/1.0; +Claude-User@anthropic.com)"}
	referrers := []string{"", "https://chatgpt.com/", "https://docs.example.com/a?b=c", "https://www.google.com/search"}
	for i := range 60 {
		all = append(all, hit{at, clients[i%4], "docs.example.com", fmt.Sprintf("/docs/p%d?a=%d", i%7, i), agents[i%5%4],
			[]int{200, 304, 404, 200, 206}[i%5], referrers[i%7%4], []string{"", "navigate", "cors"}[i%3],
			[]int64{5120, 0, 1, 98_765_432_101}[i%11%4]})
		at = at.Add(time.Duration(i) * 731 * time.Second)
	}
	return all
}

// or returns a dash for no text.
func or(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func quoted(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func combinedLine(h hit) string {
	return fmt.Sprintf(`%s - - [%s] "GET %s HTTP/1.1" %d %s "%s" "%s"`, h.client,
		h.at.Format("02/Jan/2006:15:04:05 -0700"), h.path, h.status, h.size(), or(h.referrer), or(h.agent))
}

// size is the bytes sent, as Apache logs them.
func (h hit) size() string {
	if h.bytes == 0 {
		return "-"
	}
	return fmt.Sprint(h.bytes)
}

func caddyRequest(h hit) string {
	return fmt.Sprintf(`{"level":"info","ts":%d.25,"logger":"http.log.access","msg":"handled request","request":{`+
		`"remote_ip":%q,"remote_port":"1","client_ip":%q,"proto":"HTTP/2.0","method":"GET","host":%q,"uri":%q,"headers":{`+
		`"User-Agent":[%s],"Cf-Connecting-Ip":["6.6.6.6"],"Host":["evil"],":path":["/evil"],":status":["500"],`+
		`"Referer":[%s],"Sec-Fetch-Mode":[%s],"Size":["7"]}},"bytes_read":9,"size":%d,"status":%d}`,
		h.at.Unix(), "10.0.0.1", h.client, h.host, h.path, quoted(h.agent), quoted(h.referrer), quoted(h.mode), h.bytes,
		h.status)
}

// iso is h's time with its zone.
func (h hit) iso() string { return h.at.Format("2006-01-02T15:04:05.000Z07:00") }

// url is what h has asked for.
func (h hit) url() string { return "https://" + h.host + h.path }

// hostPort is the client's address and port: of IPv6 in brackets.
func (h hit) hostPort() string {
	if strings.Contains(h.client, ":") {
		return "[" + h.client + "]:2817"
	}
	return h.client + ":2817"
}

// writer is how some server writes requests. The names of its parts are in the server's documentation, which source
// names.
type writer struct {
	name, source string
	setting      string // DOCGAUGE_SITE_LOG_FORMAT, if it is not auto
	form         string // that the parser names; empty: of one in an envelope
	lacksHost    bool
	lacks        string // referrer or bytes
	mode         bool   // Sec-Fetch-Mode is logged
	head         string // lines before them
	line         func(hit) string
	whole        func([]string) string // of a file that has no lines
}

var allFormats = []writer{
	{name: "combined", source: "nginx.org, ngx_http_log_module", form: "combined", lacksHost: true, line: combinedLine},
	{name: "vhost_combined", source: "httpd.apache.org, mod_log_config: %v:%p", form: "combined", line: func(h hit) string {
		return h.host + ":443 " + combinedLine(h)
	}},
	{name: "%v", source: "httpd.apache.org, mod_log_config; docs.fastly.com, useful log formats", form: "combined",
		line: func(h hit) string { return h.host + " " + combinedLine(h) }},
	{name: "main with times", source: "kubernetes.github.io/ingress-nginx, log format", form: "combined", lacksHost: true,
		line: func(h hit) string {
			return combinedLine(h) + ` 393 0.005 [default-docs-80] [] 10.1.0.5:80 1234 0.005 200 7ab3`
		}},
	{name: "Traefik CLF", source: "doc.traefik.io, access logs", form: "combined", lacksHost: true, line: func(h hit) string {
		return combinedLine(h) + ` 42 "docs@docker" "http://172.17.0.2:80" 3ms`
	}},
	{name: "Apache, ISO time", source: "httpd.apache.org, mod_log_config: %{…}t", form: "combined", lacksHost: true,
		line: func(h hit) string {
			return strings.Replace(combinedLine(h), h.at.Format("02/Jan/2006:15:04:05 -0700"),
				h.at.In(time.FixedZone("", 7200)).Format("2006-01-02 15:04:05.000 -0700"), 1)
		}},
	{name: "Caddy", mode: true, source: "caddyserver.com, log", form: "caddy", line: caddyRequest},
	{name: "Caddy's console", mode: true, source: "caddyserver.com, log, format console", line: func(h hit) string {
		line := strings.Replace(caddyRequest(h), fmt.Sprintf(`"ts":%d.25,`, h.at.Unix()), "", 1)
		return h.at.Format("2006/01/02 15:04:05.000") + "\tinfo\thttp.log.access.log0\thandled request\t" + line
	}},
	{name: "Traefik JSON", mode: true, source: "doc.traefik.io, access logs, available fields", form: "traefik",
		line: func(h hit) string {
			return fmt.Sprintf(`{"ClientAddr":%q,"ClientHost":%q,"DownstreamStatus":%d,"RequestHost":%q,"RequestMethod":"GET",`+
				`"RequestPath":%q,"StartUTC":%q,"level":"info","msg":"","request_User-Agent":%s,"request_Referer":%s,`+
				`"request_Sec-Fetch-Mode":%s,"OriginContentSize":7,"DownstreamContentSize":%d,"time":%q}`, "10.0.0.1:999",
				h.client, h.status, h.host, h.path, h.iso(), quoted(h.agent), quoted(h.referrer), quoted(h.mode), h.bytes,
				h.at.Format(time.RFC3339))
		}},
	{name: "nginx JSON", mode: true, source: "nginx.org, log_format escape=json", form: "nginx", line: func(h hit) string {
		return fmt.Sprintf(`{"time_local":%q,"remote_addr":%q,"host":%q,"request":"GET %s HTTP/1.1","status":"%d",`+
			`"http_user_agent":%s,"body_bytes_sent":"%d","http_referer":%s,"http_sec_fetch_mode":%s}`,
			h.at.Format("02/Jan/2006:15:04:05 -0700"), h.client, h.host, h.path, h.status, quoted(h.agent), h.bytes,
			quoted(h.referrer), quoted(h.mode))
	}},
	{name: "Logpush", mode: true, source: "developers.cloudflare.com, http_requests", form: "cloudflare",
		line: func(h hit) string {
			return fmt.Sprintf(`{"ClientIP":%q,"ClientRequestHost":%q,"ClientRequestMethod":"GET","ClientRequestURI":%q,`+
				`"ClientRequestUserAgent":%s,"ClientRequestSource":"eyeball","EdgeResponseStatus":%d,"EdgeStartTimestamp":%d,`+
				`"ClientRequestBytes":7,"EdgeResponseBytes":%d,"ClientRequestReferer":%s,"RequestHeaders":{"sec-fetch-mode":%s,`+
				`"referer":"https://evil"}}`, h.client, h.host, h.path, quoted(h.agent), h.status, h.at.UnixNano(), h.bytes,
				quoted(h.referrer), quoted(h.mode))
		}},
	{name: "Vercel", source: "vercel.com/docs/drains/reference/logs", form: "vercel", line: vercelLine},
	{name: "Vercel, array", source: "vercel.com/docs/drains/reference/logs", form: "vercel", line: vercelLine,
		whole: func(lines []string) string { return "[" + strings.Join(lines, ",\n ") + "]" }},
	{name: "Netlify", lacks: "bytes", source: "docs.netlify.com, log drains, traffic logs", form: "netlify",
		line: func(h hit) string {
			return fmt.Sprintf(`{"account_id":"5f","client_ip":%q,"content_type":"text/html","country":"DE","log_type":"traffic",`+
				`"method":"GET","referrer":%s,"site_name":"x","status_code":%d,"timestamp":%q,"url":%q,"user_agent":%s}`,
				h.client, quoted(h.referrer), h.status, h.iso(), h.url(), quoted(h.agent))
		}},
	{name: "Fastly", source: "docs.fastly.com, log streaming, JSON of the web interface", form: "fastly",
		line: func(h hit) string {
			return fmt.Sprintf(`{"timestamp":%q,"client_ip":%q,"geo_country":"germany","host":%q,"url":%q,`+
				`"request_method":"GET","request_user_agent":%s,"response_state":"HIT","response_status":%d,`+
				`"request_referer":%s,"response_body_size":%d,"fastly_is_edge":true}`, h.at.Format("2006-01-02T15:04:05-0700"),
				h.client, h.host, h.path, quoted(h.agent), h.status, quoted(h.referrer), h.bytes)
		}},
	{name: "Google", source: "cloud.google.com, LogEntry, HttpRequest", form: "google", line: func(h hit) string {
		return fmt.Sprintf(`{"httpRequest":{"remoteIp":%q,"requestMethod":"GET","requestUrl":%q,"status":%d,"userAgent":%s,`+
			`"requestSize":"7","responseSize":"%d","referer":%s},"receiveTimestamp":"2026-01-01T00:00:00Z","timestamp":%q}`,
			h.client, h.url(), h.status, quoted(h.agent), h.bytes, quoted(h.referrer), h.at.Format("2006-01-02T15:04:05.000000000Z"))
	}},
	{name: "Azure", source: "learn.microsoft.com, Front Door, access log", form: "azure", line: func(h hit) string {
		return fmt.Sprintf(`{"time":%q,"category":"FrontDoorAccessLog","properties":{"httpMethod":"GET","requestUri":%q,`+
			`"httpStatusCode":"%d","userAgent":%s,"clientIp":"6.6.6.6","socketIp":%q,"hostName":%q,"requestBytes":"7",`+
			`"responseBytes":"%d","referer":%s}}`, h.at.Format("2006-01-02T15:04:05.0000000Z"),
			"https://"+h.host+":443"+h.path, h.status, quoted(h.agent), h.client, h.host, h.bytes, quoted(h.referrer))
	}},
	{name: "ECS", source: "elastic.co, ECS reference", form: "ecs", line: func(h hit) string {
		return fmt.Sprintf(`{"@timestamp":%q,"log":{"level":"info"},"message":"GET","source":{"ip":%q},"url":{"original":%q,`+
			`"path":"/evil","domain":%q},"http":{"request":{"method":"GET","bytes":7,"referrer":%s},`+
			`"response":{"status_code":%d,"body":{"bytes":%d}}},"user_agent":{"original":%s}}`, h.iso(), h.client, h.path,
			h.host, quoted(h.referrer), h.status, h.bytes, quoted(h.agent))
	}},
	{name: "ECS, flat", source: "elastic.co, ECS reference", form: "ecs", line: func(h hit) string {
		return fmt.Sprintf(`{"@timestamp":%q,"log.level":"info","client.ip":%q,"source.ip":"10.0.0.1","url.original":%q,`+
			`"url.domain":%q,"http.request.method":"GET","http.response.status_code":%d,"user_agent.original":%s,`+
			`"http.request.referrer":%s,"http.response.body.bytes":%d}`,
			h.iso(), h.client, h.path, h.host, h.status, quoted(h.agent), quoted(h.referrer), h.bytes)
	}},
	{name: "lograge", source: "github.com/roidrage/lograge, JSON with custom options", form: "lograge",
		line: func(h hit) string {
			return fmt.Sprintf(`{"method":"GET","path":%q,"format":"html","controller":"Docs","status":%d,"duration":1.5,`+
				`"@timestamp":%q,"remote_ip":%q,"host":%q,"user_agent":%s,"referer":%s,"bytes":%d}`, h.path, h.status, h.iso(),
				h.client, h.host, quoted(h.agent), quoted(h.referrer), h.bytes)
		}},
	{name: "pino", mode: true, source: "github.com/pinojs/pino-http", form: "pino", lacksHost: true,
		line: func(h hit) string {
			return fmt.Sprintf(`{"level":30,"time":%d,"req":{"id":1,"method":"GET","url":%q,"headers":{"host":"evil","user-agent":%s,`+
				`"referer":%s,"sec-fetch-mode":%s,"content-length":"7"},"remoteAddress":%q},"res":{"statusCode":%d,"headers":{`+
				`"content-length":"%d"}},"msg":"request completed"}`, h.at.UnixMilli(), h.path,
				quoted(h.agent), quoted(h.referrer), quoted(h.mode), h.client, h.status, h.bytes)
		}},
	{name: "Istio JSON", lacks: "referrer", source: "istio.io, Envoy access logs", form: "envoy", line: func(h hit) string {
		return fmt.Sprintf(`{"start_time":%q,"method":"GET","path":%q,"response_code":%d,"user_agent":%s,"authority":%q,`+
			`"downstream_remote_address":%q,"x_forwarded_for":null,"bytes_received":7,"bytes_sent":%d}`, h.iso(), h.path,
			h.status, quoted(h.agent), h.host, h.hostPort(), h.bytes)
	}},
	{name: "IIS", mode: true, source: "learn.microsoft.com, W3C logging", form: "w3c",
		head: "#Software: Microsoft Internet Information Services 10.0\r\n#Version: 1.0\r\n#Fields: date time s-ip cs-method " +
			"cs-uri-stem cs-uri-query cs-host c-ip cs(User-Agent) cs(Referer) sc-status sc-substatus time-taken " +
			"sc-bytes cs-bytes cs(Sec-Fetch-Mode)\r\n",
		line: func(h hit) string {
			path, query, _ := strings.Cut(h.path, "?")
			return fmt.Sprintf("%s 10.0.0.5 GET %s %s %s %s %s %s %d 0 15 %d 7 %s\r", h.at.Format("2006-01-02 15:04:05"), path,
				query, h.host, h.client, strings.ReplaceAll(or(h.agent), " ", "+"), or(h.referrer), h.status, h.bytes, or(h.mode))
		}},
	{name: "CloudFront", source: "docs.aws.amazon.com, CloudFront standard logs", form: "w3c",
		head: "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status " +
			"cs(Referer) cs(User-Agent) cs-uri-query x-host-header x-forwarded-for\n",
		line: func(h hit) string {
			path, query, _ := strings.Cut(h.path, "?")
			return strings.Join([]string{h.at.Format("2006-01-02\t15:04:05"), "FRA56", fmt.Sprint(h.bytes), h.client, "GET",
				"d1.cloudfront.net", path, fmt.Sprint(h.status), or(h.referrer), url.PathEscape(or(h.agent)), query, h.host, "-"}, "\t")
		}},
	{name: "ALB", lacks: "referrer", source: "docs.aws.amazon.com, Application Load Balancer access logs", form: "alb",
		line: func(h hit) string {
			return fmt.Sprintf(`h2 %s app/docs/50dc %s 10.0.0.1:80 0.000 0.001 0.000 %d 200 34 %d `+
				`"GET https://%s:443%s HTTP/2.0" "%s" ECDHE-RSA TLSv1.2 arn:aws:x "Root=1-5" "%s" "arn:aws:acm" 0 %s "forward" "-"`,
				h.at.Format("2006-01-02T15:04:05.000000Z"), h.hostPort(), h.status, h.bytes, h.host, h.path, or(h.agent), h.host,
				h.iso())
		}},
	{name: "ELB", lacks: "referrer", source: "docs.aws.amazon.com, Classic Load Balancer access logs", form: "elb",
		line: func(h hit) string {
			return fmt.Sprintf(`%s my-lb %s 10.0.0.1:80 0.000 0.001 0.000 %d 200 0 %d "GET http://%s:80%s HTTP/1.1" "%s" - -`,
				h.at.Format("2006-01-02T15:04:05.000000Z"), h.hostPort(), h.status, h.bytes, h.host, h.path, or(h.agent))
		}},
	{name: "S3", source: "docs.aws.amazon.com, S3 server access log format", form: "s3", line: func(h hit) string {
		return fmt.Sprintf(`79a59df900b949e5 %s [%s] %s - 3E57427F3 WEBSITE.GET.OBJECT docs/p "GET %s HTTP/1.1" %d - %s 1234 `+
			`7 6 "%s" "%s" - s9lzHY= SigV4 - - %s TLSV1.3 - -`, h.host, h.at.Format("02/Jan/2006:15:04:05 -0700"), h.client,
			h.path, h.status, h.size(), or(h.referrer), or(h.agent), h.host)
	}},
	{name: "Envoy", lacks: "referrer", source: "envoyproxy.io, access logging, default format", form: "envoy",
		line: func(h hit) string {
			return fmt.Sprintf(`[%s] "GET %s HTTP/2" %d - 7 %d 5 4 "%s" "%s" "rid" "%s" "10.0.0.1:80"`, h.iso(), h.path,
				h.status, h.bytes, h.client, or(h.agent), h.host)
		}},
	{name: "Istio", lacks: "referrer", source: "istio.io, Envoy access logs, default format", form: "envoy",
		line: func(h hit) string {
			return fmt.Sprintf(`[%s] "GET %s HTTP/1.1" %d - via_upstream - "-" 7 %d 5 4 "-" "%s" "rid" "%s" "10.0.0.1:80" `+
				`outbound|80||docs 10.0.0.2:1 10.0.0.3:80 %s - default`, h.iso(), h.path, h.status, h.bytes, or(h.agent),
				h.host, h.hostPort())
		}},
	{name: "HAProxy", mode: true, source: "docs.haproxy.org, HTTP log format, captured headers", setting: "haproxy:Europe/Berlin",
		form: "haproxy", line: func(h hit) string {
			berlin, err := time.LoadLocation("Europe/Berlin")
			if err != nil {
				panic(err)
			}
			return haproxyLine(h, h.at.In(berlin))
		}},
	{name: "bunny.net", source: "docs.bunny.net, CDN log format", form: "bunny", line: func(h hit) string {
		return fmt.Sprintf("HIT|%d|%d|%d|12345|%s|%s|%s|DE|%s|322b688bd63f|DE", h.status, h.at.UnixMilli(), h.bytes, h.client,
			or(h.referrer), h.url(), or(h.agent))
	}},
	{name: "named", setting: `nginx:log_format docs escape=json '$host $remote_addr [$time_iso8601] "$request" '` +
		"\n    '$status \"$http_user_agent\" $body_bytes_sent \"$http_referer\" ${http_sec_fetch_mode}';", mode: true,
		source: "nginx.org, log_format", form: "nginx", line: func(h hit) string {
			return fmt.Sprintf(`%s %s [%s] "GET %s HTTP/1.1" %d "%s" %d "%s" %s and more`, h.host, h.client,
				h.at.Format("2006-01-02T15:04:05-07:00"), h.path, h.status, or(h.agent), h.bytes, or(h.referrer), or(h.mode))
		}},
	{name: "Docker", source: "docs.docker.com, json-file", lacksHost: true, line: func(h hit) string {
		return fmt.Sprintf(`{"log":%s,"stream":"stdout","time":%q}`, quoted(combinedLine(h)+"\n"), h.iso())
	}},
	{name: "Docker of Caddy", mode: true, source: "docs.docker.com, json-file", line: func(h hit) string {
		return fmt.Sprintf(`{"log":%s,"stream":"stderr","time":%q}`, quoted(caddyRequest(h)+"\n"), h.iso())
	}},
	{name: "compose", source: "docs.docker.com, docker compose logs", lacksHost: true, line: func(h hit) string {
		return "web-1  | " + combinedLine(h)
	}},
	{name: "compose --timestamps", mode: true, source: "docs.docker.com, docker compose logs", line: func(h hit) string {
		return "caddy-1 | " + h.iso() + " " + caddyRequest(h)
	}},
	{name: "CRI", source: "kubernetes.io, CRI logging format", lacksHost: true, line: func(h hit) string {
		return h.at.Format("2006-01-02T15:04:05.000000000Z") + " stdout F " + combinedLine(h)
	}},
	{name: "CRI, split", source: "kubernetes.io, CRI logging format: P and F", lacksHost: true, line: criParts},
	{name: "Docker, split", mode: true, source: "github.com/moby/moby, daemon/logger/copier.go: 16 KiB", line: dockerParts},
	{name: "kubectl --prefix", mode: true, source: "kubernetes.io, kubectl logs", line: func(h hit) string {
		return "[pod/caddy-5d/caddy] " + caddyRequest(h)
	}},
	{name: "journald export", source: "systemd.io, journal export formats", lacksHost: true, line: func(h hit) string {
		return fmt.Sprintf("__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP=%d\n_PID=77\nMESSAGE=%s\n", h.at.UnixMicro(), combinedLine(h))
	}},
	{name: "journald JSON", source: "systemd.io, journalctl -o json", lacksHost: true, line: func(h hit) string {
		return fmt.Sprintf(`{"__REALTIME_TIMESTAMP":"%d","_PID":"77","MESSAGE":%s}`, h.at.UnixMicro(), quoted(combinedLine(h)))
	}},
	{name: "journald short", mode: true, source: "freedesktop.org, journalctl -o short", line: func(h hit) string {
		return h.at.Format("Jan 02 15:04:05") + " web1 caddy[77]: " + caddyRequest(h)
	}},
	{name: "RFC 3164", source: "rfc-editor.org, RFC 3164; nginx.org, syslog", lacksHost: true, line: func(h hit) string {
		return "<190>" + h.at.Format("Jan _2 15:04:05") + " web1 nginx: " + combinedLine(h)
	}},
	{name: "RFC 5424", source: "rfc-editor.org, RFC 5424", lacksHost: true, line: func(h hit) string {
		return "<165>1 " + h.iso() + ` web1 nginx 77 - [a@1 b="c] \" d"][e f="g"] ` + combinedLine(h)
	}},
	{name: "syslog of Fastly", source: "docs.fastly.com, log streaming: syslog", lacksHost: true, line: func(h hit) string {
		return "<134>" + h.at.Format(time.RFC3339) + " cache-fra-1 docs[12345]: " + combinedLine(h)
	}},
	{name: "rsyslog of HAProxy", mode: true, source: "rsyslog.com, RSYSLOG_FileFormat", line: func(h hit) string {
		return h.at.Format("2006-01-02T15:04:05.000000-07:00") + " lb haproxy[12]: " + haproxyLine(h, h.at)
	}},
}

func vercelLine(h hit) string {
	return fmt.Sprintf(`{"id":"1","source":"static","host":"docs-abc.vercel.app","timestamp":1,"level":"info","path":"/evil",`+
		`"statusCode":500,"proxy":{"timestamp":%d,"method":"GET","host":%q,"path":%q,"userAgent":[%s],"statusCode":%d,`+
		`"clientIp":%q,"scheme":"https","referer":%s,"responseByteSize":%d}}`, h.at.UnixMilli(), h.host, h.path,
		quoted(h.agent), h.status, h.client, quoted(h.referrer), h.bytes)
}

// criParts is a line that the runtime has split.
func criParts(h hit) string {
	begin, line := h.at.Format("2006-01-02T15:04:05.000000000Z")+" stdout ", combinedLine(h)
	return begin + "P " + line[:30] + "\n" + begin + "P " + line[30:70] + "\n" + begin + "F " + line[70:]
}

// dockerParts is a line that Docker has split, in the middle of a header.
func dockerParts(h hit) string {
	line := strings.Replace(caddyRequest(h), `"headers":{`, `"headers":{"X-Long":["`+strings.Repeat("é", dockerPart/2)+`"],`, 1) + "\n"
	var parts []string
	for len(line) > 0 {
		part := line[:min(len(line), dockerPart)]
		parts = append(parts, fmt.Sprintf(`{"log":%s,"stream":"stdout","time":%q}`, quoted(part), h.iso()))
		line = line[len(part):]
	}
	return strings.Join(parts, "\n")
}

func haproxyLine(h hit, at time.Time) string {
	return fmt.Sprintf(`%s:51234 [%s] https~ docs/web1 0/0/1/2/3 %d %d - - ---- 1/1/0/0/0 0/0 {%s|%s|%s|%s} {nginx} `+
		`"GET %s HTTP/1.1"`, h.client, at.Format("02/Jan/2006:15:04:05.000"), h.status, h.bytes, h.host, h.agent, h.referrer,
		h.mode, h.path)
}

// text returns the requests as a log.
func (f writer) text(hits []hit) string {
	var lines []string
	for _, h := range hits {
		lines = append(lines, f.line(h))
	}
	if f.whole != nil {
		return f.whole(lines)
	}
	return f.head + strings.Join(lines, "\n") + "\n"
}

func (f writer) parser(t *testing.T) *Parser {
	t.Helper()
	setting := f.setting
	if setting == "" {
		setting = "auto"
	}
	parsed, err := ParseFormat(setting)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Parser()
}

// asRead is a line as the truth says it, and of which form it is.
func (f writer) asRead(p *Parser, l *Line) (hit, string) {
	client := string(l.Client)
	if client == "" {
		client = string(l.Forwarded)
	}
	if host, _, ok := strings.Cut(client, "]"); ok || strings.HasSuffix(client, ":2817") {
		client = strings.Trim(strings.TrimSuffix(host, ":2817"), "[")
	}
	path := string(l.Target)
	if _, after, ok := strings.Cut(path, "://"); ok {
		path = after[strings.IndexByte(after, '/'):]
	}
	host, _, _ := strings.Cut(string(l.Host), ":")
	form := p.Form
	if f.form == "" {
		form = ""
	}
	if string(l.Method) != "GET" {
		form += " " + string(l.Method)
	}
	size := int64(-1)
	if l.HasBytes {
		size = l.Bytes
	}
	return hit{time.Unix(l.Time, 0).UTC(), client, host, path, string(l.UserAgent), l.Status, string(l.Referrer),
		string(l.FetchMode), size}, form
}

// want are hits as the format can say them.
func (f writer) want(hits []hit) []string {
	var all []string
	for _, h := range hits {
		if f.lacksHost {
			h.host = ""
		}
		if f.lacks == "referrer" {
			h.referrer = ""
		}
		if !f.mode {
			h.mode = ""
		}
		if f.lacks == "bytes" {
			h.bytes = -1
		}
		all = append(all, fmt.Sprint(h, f.form))
	}
	return all
}

// read returns the lines of some text.
func (f writer) read(t *testing.T, p *Parser, c Lines) (all []string) {
	t.Helper()
	p.SetFields(c.Fields)
	for line := range bytes.Lines(c.Text) {
		var l Line
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			continue
		}
		ok, err := p.Parse(line, &l)
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if ok {
			h, form := f.asRead(p, &l)
			all = append(all, fmt.Sprint(h, form))
		}
	}
	return all
}

// TestKnownFormats: the same requests are read in each format as they are: from a stream, compressed, and from a file
// that grows, is rotated and read on by another process.
func TestKnownFormats(t *testing.T) {
	hits := truth()
	for _, f := range allFormats {
		t.Run(f.name, func(t *testing.T) {
			want := f.want(hits)
			for name, text := range map[string]string{"plain": f.text(hits), "gzip": zipped(f.text(hits))} {
				in, err := Decompress(strings.NewReader(text))
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				p := f.parser(t)
				err = ReadLines(in, Part{First: 1}, func(c Lines) error {
					got = append(got, f.read(t, p, c)...)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
			w := newWatch(t, "a.log")
			var got []string
			for i, end := range []int{1, 7, 8, 30, 60} {
				if f.whole != nil && end < len(hits) { // it is written at once
					continue
				}
				w.write("a.log", f.text(hits[:end]))
				_, err := w.poll()
				w.check(err)
				for _, c := range w.chunks {
					got = append(got, f.read(t, f.parser(t), c.Lines)...)
				}
				if i%2 == 1 {
					w.restart()
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("followed: %s", diff)
			}
		})
	}
}

// TestParts: a line that a container's runtime has split is read once its last part is there, wherever a chunk, a poll
// or a restart is between them, and whatever the other stream writes; what never ends is counted.
func TestParts(t *testing.T) {
	hits := truth()
	other := "2026-11-01T00:00:00Z stderr F _PID=77\n"
	var text strings.Builder
	for i, h := range hits {
		text.WriteString(strings.Replace(criParts(h)+"\n", "\n", "\n"+strings.Repeat(other, i%3), 1))
	}
	f := writer{lacksHost: true}
	want := f.want(hits)
	w := newWatch(t, "a.log")
	var got []string
	at := 0
	for i := range text.Len() {
		if text.String()[i] != '\n' && i%97 > 0 {
			continue
		}
		w.write("a.log", text.String()[:i+1])
		_, err := w.poll()
		w.check(err)
		for _, c := range w.chunks {
			got = append(got, f.read(t, f.parser(t), c.Lines)...)
		}
		if at++; at%5 == 0 {
			w.restart()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("followed: %s", diff)
	}

	// Chunks end anywhere.
	var long strings.Builder
	n := 0
	for ; long.Len() < 3*chunkSize; n++ {
		long.WriteString(dockerParts(hits[n%60]) + "\n" + criParts(hits[n%60]) + "\n")
	}
	n, chunks := 2*n, 0
	err := ReadLines(strings.NewReader(long.String()), Part{First: 1}, func(c Lines) error {
		chunks++
		p := f.parser(t)
		n -= len(f.read(t, p, c))
		if n := p.EndParts(); n > 0 {
			t.Errorf("chunk %d has %d parts", chunks, n)
		}
		return nil
	})
	if err != nil || n != 0 || chunks < 3 {
		t.Errorf("%d lines more, in %d chunks; %v", n, chunks, err)
	}

	// A part without an end holds up no others for ever.
	endless := strings.Repeat("2026-11-01T00:00:00Z stdout P "+strings.Repeat("x", 16<<10)+"\n", 200)
	parts := 0
	err = ReadLines(strings.NewReader(endless), Part{First: 1, Open: true}, func(c Lines) error {
		p := f.parser(t)
		if got := f.read(t, p, c); len(got) > 0 {
			t.Error(got)
		}
		parts += p.EndParts()
		return nil
	})
	if err != nil || parts < 150 {
		t.Errorf("%d parts, %v", parts, err)
	}

	// A line that is as long as a part is none.
	short := caddyRequest(hits[0])
	full := strings.Replace(short, `"headers":{`, `"headers":{"X":["`+
		strings.Repeat("x", dockerPart-len(short)-len(`"X":[""],`)-len("\n"))+`"],`, 1)
	full = fmt.Sprintf(`{"log":%s,"stream":"stdout","time":%q}`, quoted(full+"\n"), hits[0].iso()) + "\n"
	if got := f.read(t, f.parser(t), Lines{Text: []byte(full + full)}); len(got) != 2 {
		t.Errorf("%q, want two lines", got)
	}
}

// TestNeighbours: whatever is before, between and after the lines of a log, they are read as they are: lines of other
// formats, and any bytes.
func TestNeighbours(t *testing.T) {
	hits := truth()[:5]
	random := rand.New(rand.NewPCG(1, 2))
	others := []string{"", "{", "}", `{"a":1}`, "[", `"`, "#", "# comment", "\x00\x00", "\ufeff", "MESSAGE=", "<1>1", "a | b",
		`1.2.3.4 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 5 "-" "Mozilla "bare" quote"`,
		`1.2.3.4 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 5 "-" "cut`, "#Software: x", "#Version: 1.0"}
	for _, f := range allFormats {
		if f.whole == nil {
			others = append(others, strings.TrimSpace(f.line(hits[0])))
		}
	}
	for _, f := range allFormats {
		if f.whole != nil {
			continue
		}
		want := f.want(hits)
		for range 200 {
			p := f.parser(t)
			var got []string
			var l Line
			junk := func() {
				for range random.IntN(4) {
					junk := []byte(others[random.IntN(len(others))])
					for range random.IntN(6) {
						if len(junk) > 0 {
							junk[random.IntN(len(junk))] = byte(random.Uint32())
						}
					}
					for line := range bytes.Lines(junk) {
						if line = bytes.TrimRight(line, "\r\n"); !rules(line) {
							_, _ = p.Parse(line, &l) // whatever it is
						}
					}
				}
			}
			junk()
			for line := range strings.Lines(f.head) {
				_, _ = p.Parse([]byte(strings.TrimSpace(line)), &l)
			}
			for _, h := range hits {
				junk()
				for line := range strings.Lines(f.line(h)) {
					if ok, _ := p.Parse([]byte(strings.TrimRight(line, "\r\n")), &l); ok {
						h, form := f.asRead(p, &l)
						got = append(got, fmt.Sprint(h, form))
					}
				}
			}
			if !slices.Equal(want, got) {
				t.Fatalf("%s: %s", f.name, cmp.Diff(want, got))
			}
		}
	}
}

// rules reports whether a line says what the next ones are: columns, or the rest of a line.
func rules(line []byte) bool {
	e, ok := outermost(line)
	return bytes.HasPrefix(line, []byte(fieldsPrefix)) || ok && e.isPart || bytes.Contains(line, []byte(" P "))
}

// FuzzNeighbours: the same with bytes that a fuzzer finds.
func FuzzNeighbours(f *testing.F) {
	f.Add([]byte(`a - - [x] "y"`), []byte("{}"))
	hits := truth()[:1]
	f.Fuzz(func(t *testing.T, before, between []byte) {
		for _, format := range allFormats {
			if format.whole != nil || bytes.Contains(before, []byte(fieldsPrefix)) || rules(before) ||
				bytes.Contains(between, []byte(fieldsPrefix)) || rules(between) {
				continue
			}
			text := bytes.Join([][]byte{before, []byte(format.text(hits)), between, []byte(format.line(hits[0]))}, []byte("\n"))
			p := format.parser(t)
			var got []string
			for line := range bytes.Lines(text) {
				var l Line
				if ok, _ := p.Parse(bytes.TrimRight(line, "\r\n"), &l); ok {
					h, form := format.asRead(p, &l)
					got = append(got, fmt.Sprint(h, form))
				}
			}
			for _, want := range format.want(hits) {
				n := 0
				for _, line := range got {
					if line == want {
						n++
					}
				}
				if n < 2 {
					t.Fatalf("%s: %d of 2 lines are %s: %q", format.name, n, want, got)
				}
			}
		}
	})
}
