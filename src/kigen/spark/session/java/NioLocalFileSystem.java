package kigen;

import org.apache.hadoop.fs.LocalFileSystem;

/** What `fs.file.impl` names: Spark casts it to LocalFileSystem, so the raw class alone will not do. Writes no .crc files beside the data. */
public class NioLocalFileSystem extends LocalFileSystem {
    public NioLocalFileSystem() {
        super(new NioRawFileSystem());
        setWriteChecksum(false);
    }
}
