package loadgen

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"stampede/platform/watch/proof"
)

// WriteLog writes entries as JSON lines.
func WriteLog(w io.Writer, entries []proof.ClientRecord) error {
	buf := bufio.NewWriter(w)
	enc := json.NewEncoder(buf)
	for _, e := range entries {
		if err := enc.Encode(e); err != nil {
			return fmt.Errorf("loadgen: write client log: %w", err)
		}
	}
	return buf.Flush()
}

// readLog reads what WriteLog wrote. It keeps the whole log in memory, some 100
// bytes per shopper, because the checks look up entries by number.
func readLog(r io.Reader) ([]proof.ClientRecord, error) {
	var entries []proof.ClientRecord
	dec := json.NewDecoder(r)
	for {
		var e proof.ClientRecord
		err := dec.Decode(&e)
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, fmt.Errorf("loadgen: line %d of the client log: %w", len(entries)+1, err)
		}
		entries = append(entries, e)
	}
}

// ReadLogFile is readLog of a named file.
func ReadLogFile(name string) ([]proof.ClientRecord, error) {
	f, err := os.Open(filepath.Clean(name))
	if err != nil {
		return nil, fmt.Errorf("loadgen: open client log: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	return readLog(f)
}
