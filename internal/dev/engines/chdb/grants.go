//go:build linux

package main

import (
	"bytes"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
)

// grants are the rights of the one user, as GRANT statements; none at all
// leaves the engine's own configuration, which has nearly every right.
type grants []string

func (g *grants) String() string { return strings.Join(*g, "; ") }

// Set adds one statement: the flag may come several times.
func (g *grants) Set(statement string) error {
	*g = append(*g, statement)
	return nil
}

// configure writes the configuration of the user below dir and returns the
// arguments that make the engine read it.
func (g grants) configure(dir string) ([]string, error) {
	if len(g) == 0 {
		return nil, nil
	}
	dir = filepath.Join(dir, "adapter")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var queries bytes.Buffer
	for _, statement := range g {
		queries.WriteString("<query>")
		if err := xml.EscapeText(&queries, []byte(statement)); err != nil {
			return nil, err
		}
		queries.WriteString("</query>")
	}
	users := filepath.Join(dir, "users.xml")
	if err := os.WriteFile(users, []byte(strings.Replace(usersXML, "{grants}", queries.String(), 1)), 0o600); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.xml")
	text := "<clickhouse><users_config>" + users + "</users_config></clickhouse>"
	return []string{"--config-file=" + config}, os.WriteFile(config, []byte(text), 0o600)
}

const usersXML = `<clickhouse>
  <profiles><default/></profiles>
  <users>
    <default>
      <password></password>
      <networks><ip>::/0</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
      <grants>{grants}</grants>
    </default>
  </users>
  <quotas><default/></quotas>
</clickhouse>
`
