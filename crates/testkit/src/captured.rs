//! The output of programs that are not ours, and the parameters of these runs.

use fsdyno_core::Bytes;
use fsdyno_core::workload::Bonnie;

/// The rates, %CPU and latencies that bonnie++ 2.00a printed (`-s 64m -r 16 -n 1:2000:16:4 -m host -z 42`).
pub const BONNIE_PRINTED: &str = "\
Version 2.00a       ------Sequential Output------ --Sequential Input- --Random-
                    -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--
Name:Size etc        /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
host            64M 1690k  94 +++++ +++ +++++ +++ 1993k  71 +++++ +++ +++++ +++
Latency              8939us     128us      67us   26993us    2228us    8058us
Version 2.00a       ------Sequential Create------ --------Random Create--------
host                -Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--
files:max:min        /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
        1:2000:16/4 +++++ +++ +++++ +++  1426   5 +++++ +++ +++++ +++  1774   7
Latency              8137us      48us    5451us    4120us     112us    7601us
";

/// The line of the same run, with the number of directories in the field that its header gives it.
pub const BONNIE_LINE: &str = "1.98,2.00a,host,1,42,64M,,8192,5,1690,94,+++++,+++,+++++,+++,1993,71,+++++,+++,+++++,+++,1,2000,16,4,,+++++,\
                    +++,+++++,+++,1426,5,+++++,+++,+++++,+++,1774,7,8939us,128us,67us,26993us,2228us,8058us,8137us,48us,\
                    5451us,4120us,112us,7601us\n";

/// Its parameters.
pub fn bonnie_parameters() -> Bonnie {
    Bonnie {
        size: Some(Bytes(64 << 20)),
        files: 1024,
        max_size: Bytes(2000),
        min_size: Bytes(16),
        directories: 4,
        ..Bonnie::default()
    }
}
