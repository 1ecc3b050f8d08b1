package kigen;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** The local file system, setting permissions by a system call where Hadoop forks a `chmod` process for every file. */
public class NioRawFileSystem extends RawLocalFileSystem {
    /** From the lowest bit of a mode to the highest. */
    private static final PosixFilePermission[] BITS = {
        PosixFilePermission.OTHERS_EXECUTE, PosixFilePermission.OTHERS_WRITE, PosixFilePermission.OTHERS_READ,
        PosixFilePermission.GROUP_EXECUTE, PosixFilePermission.GROUP_WRITE, PosixFilePermission.GROUP_READ,
        PosixFilePermission.OWNER_EXECUTE, PosixFilePermission.OWNER_WRITE, PosixFilePermission.OWNER_READ
    };

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
        Set wanted = EnumSet.noneOf(PosixFilePermission.class);
        for (int bit = 0; bit < BITS.length; bit++) {
            if ((permission.toShort() >> bit & 1) == 1) {
                wanted.add(BITS[bit]);
            }
        }
        Files.setPosixFilePermissions(pathToFile(path).toPath(), wanted);
    }
}
