package deltalog

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
)

const readerVersion, writerVersion = 1, 2

// action is one line of an entry, or one row of a checkpoint: one of its fields is there.
// Other actions do not matter here.
type action struct {
	CommitInfo *commitInfo `json:"commitInfo,omitempty"`
	Protocol   *protocol   `json:"protocol,omitempty"`
	MetaData   *metaData   `json:"metaData,omitempty"`
	Txn        *txn        `json:"txn,omitempty"`
	Remove     *remove     `json:"remove,omitempty"`
	Add        *add        `json:"add,omitempty"`
}

type commitInfo struct {
	Timestamp           int64  `json:"timestamp"` // milliseconds, as all times in the log
	Operation           string `json:"operation,omitempty"`
	OperationParameters any    `json:"operationParameters,omitempty"`
	EngineInfo          string `json:"engineInfo,omitempty"`
	IsBlindAppend       bool   `json:"isBlindAppend"`
	TxnID               string `json:"txnId,omitempty"`
}

type protocol struct {
	MinReaderVersion int32    `json:"minReaderVersion"`
	MinWriterVersion int32    `json:"minWriterVersion"`
	ReaderFeatures   []string `json:"readerFeatures,omitempty"`
	WriterFeatures   []string `json:"writerFeatures,omitempty"`
}

type metaData struct {
	ID               string            `json:"id"`
	Name             string            `json:"name,omitempty"`
	Description      string            `json:"description,omitempty"`
	Format           format            `json:"format"`
	SchemaString     string            `json:"schemaString"`
	PartitionColumns []string          `json:"partitionColumns"`
	CreatedTime      int64             `json:"createdTime,omitempty"`
	Configuration    map[string]string `json:"configuration"`
}

type format struct {
	Provider string            `json:"provider"`
	Options  map[string]string `json:"options"`
}

type txn struct {
	AppID       string `json:"appId"`
	Version     int64  `json:"version"`
	LastUpdated int64  `json:"lastUpdated,omitempty"`
}

// add and remove have their paths escaped, as in the log.
type add struct {
	Path             string            `json:"path"`
	PartitionValues  map[string]string `json:"partitionValues"`
	Size             int64             `json:"size"`
	ModificationTime int64             `json:"modificationTime"`
	DataChange       bool              `json:"dataChange"`
	Stats            string            `json:"stats,omitempty"`
	Tags             map[string]string `json:"tags,omitempty"`
}

type remove struct {
	Path                 string            `json:"path"`
	DeletionTimestamp    int64             `json:"deletionTimestamp"`
	DataChange           bool              `json:"dataChange"`
	ExtendedFileMetadata bool              `json:"extendedFileMetadata"`
	PartitionValues      map[string]string `json:"partitionValues"`
	Size                 int64             `json:"size"`
}

// escape makes a path a URI reference without scheme or host, as RFC 2396 has it.
func escape(path string) string {
	return strings.ReplaceAll((&url.URL{Path: path}).EscapedPath(), ":", "%3A")
}

// unescape is the inverse; a path that other programs wrote unescaped is not changed.
func unescape(path string) string {
	if plain, err := url.PathUnescape(path); err == nil {
		return plain
	}
	return path
}

// encodeEntry writes an action a line.
func encodeEntry(actions []action) ([]byte, error) {
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	lines.SetEscapeHTML(false)
	for _, a := range actions {
		if err := lines.Encode(a); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// decodeEntry reads the actions of an entry, those that are known.
func decodeEntry(in io.Reader) ([]action, error) {
	var actions []action
	lines := json.NewDecoder(in)
	for n := 1; ; n++ {
		var a action
		switch err := lines.Decode(&a); {
		case errors.Is(err, io.EOF) && n > 1:
			return actions, nil
		case errors.Is(err, io.EOF):
			return nil, errors.New("is empty")
		case err != nil:
			return nil, fmt.Errorf("action %d: %w", n, err)
		}
		if a.Add != nil && a.Add.Path == "" || a.Remove != nil && a.Remove.Path == "" || a.MetaData != nil &&
			a.MetaData.ID == "" {
			return nil, fmt.Errorf("action %d: a file without a path, or a table without an id", n)
		}
		if a != (action{}) {
			actions = append(actions, a)
		}
	}
}

// tableSchema is metaData.schemaString.
type tableSchema struct {
	Type   string  `json:"type"`
	Fields []field `json:"fields"`
}

type field struct {
	Name     string          `json:"name"`
	Type     json.RawMessage `json:"type"` // a name in quotes, or an object for a nested one
	Nullable bool            `json:"nullable"`
	Metadata map[string]any  `json:"metadata"`
}

func newMetaData(c Options, now int64) *metaData {
	s := tableSchema{Type: "struct"}
	for _, col := range c.Columns {
		s.Fields = append(s.Fields, field{col.Name, json.RawMessage(`"` + col.Type + `"`), col.Nullable,
			map[string]any{}})
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a column type is not a name
	}
	var id [16]byte
	_, _ = rand.Read(id[:])                         // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // a random UUID
	return &metaData{
		ID:               fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]),
		Description:      c.Description,
		Format:           format{Provider: "parquet", Options: map[string]string{}},
		SchemaString:     string(text),
		PartitionColumns: []string{},
		CreatedTime:      now,
		Configuration:    map[string]string{},
	}
}

// check returns why this program must not write to a table like this; none if it may.
func (p *protocol) check() error {
	if p.MinReaderVersion == readerVersion && p.MinWriterVersion >= 1 && p.MinWriterVersion <= writerVersion {
		return nil
	}
	return fmt.Errorf("%w: reader version %d and writer version %d, features %q, of which this program knows %d and "+
		"%d: "+
		"drop the features (ALTER TABLE … DROP FEATURE), or empty the directory and run docgauge load",
		ErrProtocol, p.MinReaderVersion, p.MinWriterVersion, slices.Concat(p.ReaderFeatures, p.WriterFeatures),
		readerVersion, writerVersion)
}

// check returns why files with these columns must not be added; none if they may.
func (m *metaData) check(columns []Column) error {
	altered := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format+": RESTORE it to a version before that, or empty the directory and run "+
			"docgauge load", append([]any{ErrSchema}, args...)...)
	}
	if m.Format.Provider != "parquet" {
		return altered("files are %q, want parquet", m.Format.Provider)
	}
	if len(m.PartitionColumns) > 0 {
		return altered("partition columns %q, want none", m.PartitionColumns)
	}
	if strings.EqualFold(m.Configuration["delta.appendOnly"], "true") {
		return altered("delta.appendOnly is set, but windows are replaced")
	}
	var s tableSchema
	if err := json.Unmarshal([]byte(m.SchemaString), &s); err != nil {
		return altered("schema is not JSON: %v", err)
	}
	theirs := map[string]field{}
	for _, f := range s.Fields {
		theirs[f.Name] = f
		if f.Metadata["delta.invariants"] != nil {
			return altered("column %s has an invariant, which this program cannot evaluate", f.Name)
		}
	}
	for _, col := range columns {
		f, ok := theirs[col.Name]
		delete(theirs, col.Name)
		switch {
		case !ok:
			return altered("column %s is missing", col.Name)
		case string(f.Type) != `"`+col.Type+`"`:
			return altered("column %s is of type %s, want %s", col.Name, f.Type, col.Type)
		case col.Nullable && !f.Nullable:
			return altered("column %s is NOT NULL", col.Name)
		}
	}
	for _, f := range theirs {
		if !f.Nullable {
			return altered("column %s is new and NOT NULL", f.Name)
		}
	}
	return nil
}
