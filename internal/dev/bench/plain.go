package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
)

// answer is a page as the plain client decodes it.
type answer struct {
	Visitors []struct {
		Path  string `json:"path"`
		Human int64  `json:"human"`
		AI    int64  `json:"ai"`
		Total int64  `json:"total"`
	} `json:"visitors"`
	HasMore bool `json:"hasMore"`
}

// tally is what a client says it did.
type tally struct {
	Rows     int64 `json:"rows"`
	Requests int64 `json:"requests"`
}

// plain is the plain client's process: it reads so many windows of project from
// base into the CSV file at path, and says its tally on out.
func plain(out io.Writer, base, project, windows, path string) error {
	n, err := strconv.Atoi(windows)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(file)
	w := csv.NewWriter(buffered)
	var done tally
	for i := range n {
		if err := plainWindow(base, project, i, w, &done); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	w.Flush()
	if err := errors.Join(w.Error(), buffered.Flush(), file.Close()); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(done)
}

func plainWindow(base, project string, n int, w *csv.Writer, done *tally) error {
	from, to := days(n)
	for offset := 0; ; offset += pageRows {
		page, err := plainPage(fmt.Sprintf("%s/v1/analytics/%s/visitors?dateFrom=%s&dateTo=%s&limit=%d&offset=%d",
			base, project, from, to, pageRows, offset))
		if err != nil {
			return err
		}
		done.Requests++
		for _, v := range page.Visitors {
			done.Rows++
			if err := w.Write([]string{from, v.Path, strconv.FormatInt(v.Human, 10), strconv.FormatInt(v.AI, 10), strconv.FormatInt(v.Total, 10)}); err != nil {
				return err
			}
		}
		if !page.HasMore {
			return nil
		}
	}
}

func plainPage(url string) (page answer, err error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return page, err
	}
	req.Header.Set("Authorization", "Bearer "+benchKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return page, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return page, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return page, json.NewDecoder(resp.Body).Decode(&page)
}
